"""What tunes the attention kernels: their tunables for the tuner, and the device that runs candidates on a GPU.

The tuner finds both by entry points (`txtdb.tunables`, `txtdb.devices`). Only what measures or compiles loads torch and
triton.
"""
