"""How an agent reaches the control plane."""
