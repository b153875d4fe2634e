"""The commands of `ares` that are programs themselves: servers, agents, the simulator, the judges."""
