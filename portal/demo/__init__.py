"""`make demo`: everything on one machine, two sandbox nodes, and a real training job run as a user would."""
