"""Rates of PyTorch's schedulers, and the script that writes them."""
