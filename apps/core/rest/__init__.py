"""What the REST faces of all apps share: input, lists, ranges, repeated requests, throttles, OpenAPI."""
