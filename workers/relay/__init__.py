"""The relay: takes wishes out of the outbox to their queues, and sweeps what messages may have lost."""
