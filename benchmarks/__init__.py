"""Measurements and proofs that run the whole of Berth, one command each."""
