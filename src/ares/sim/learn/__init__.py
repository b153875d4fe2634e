"""Training of run time models, offline, with the extra `ares-platform[ml]`. No part of the control plane needs it."""
