"""Measurements that `make bench` takes; the tests never depend on a clock."""
