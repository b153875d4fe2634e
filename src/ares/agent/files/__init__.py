"""Files of attempts: the output they write, the outputs they leave, and their way to the control plane."""
