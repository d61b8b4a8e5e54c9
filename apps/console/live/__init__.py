"""The parts of the live socket: who connects, what may be watched, what waits to be sent."""
