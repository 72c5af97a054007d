"""How fast this machine trains and translates."""
