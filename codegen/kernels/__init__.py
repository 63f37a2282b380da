"""The attention kernels in Triton. Only the modules here import triton, and only `attention` imports torch."""
