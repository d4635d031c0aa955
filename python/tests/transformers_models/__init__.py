"""Small models of the library transformers, of every family that HLX reads."""
