"""The operations of `hlx.nn.functional`, by kind."""
