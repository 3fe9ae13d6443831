"""The verbs. They speak only to ports, and take time only from a clock they are given."""
