== D: 0 of 0
== M: 0 of 0
== P: 0 of 0
