"""The verbs of `berth`, one module per noun."""
