"""The choices-only screen: votes, consensus and what chance explains."""
