"""Hostile peers against every role and port, beside a client that must not notice (`make fuzz`).

`arena` has a cluster of real processes and judges: calls of the bystander, memory, descriptors and processor time of
the servers, and what they log. A family (`families`) is one way to be hostile: mutated messages of all kinds, or a
flood. Its choices come from a seed, its bytes from the conformance suite's own encoder and vectors. What a family may
cost is the same for all: bounds must stop it, whatever its pattern. `attackers` runs each attack in a process of its
own, because libzmq ends a process for some of what hostile peers do.
"""
