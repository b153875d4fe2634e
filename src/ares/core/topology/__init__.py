"""Which GPUs of a machine belong together, and how far machines are apart. Pure."""
