"""The agent's stream to the control plane, and the right to run that it renews."""
