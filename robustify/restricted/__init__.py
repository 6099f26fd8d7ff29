"""Restricted sets: what they must show to come in, and what of them may go out.

Text comes in through `access`, which refuses where one of its facts is missing; what goes out is decided by
`release` alone. There is no mode in between: nothing runs on a restricted set with less than all of it.
"""
