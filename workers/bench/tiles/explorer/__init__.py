"""Explorer: kernels of our own that no release ships, asked what they would need, without a GPU."""
