"""Tables of `amd/` and `nvidia/` without a device: candidates are compiled, a model ranks them by what they need."""
