"""Configuration, wiring, and the programs: server, agent, supervisor and planner."""
