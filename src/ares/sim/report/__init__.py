"""What a simulation found: figures for programs, and one HTML file for people."""
