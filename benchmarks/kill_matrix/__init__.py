"""The kill matrix: one job parked at each step of its way, one fault for all of them, and what became of each."""
