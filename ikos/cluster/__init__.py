"""Sums and graph experiments on a cluster, by Dask (the extra ``cluster``).

The parties of a sum are tasks. The clients of one block of users are a task: it reads their values,
rounds them and adds noise, draws a secret for all rows of shares but the last, subtracts those from
the last row, and keeps that row, the secret and a nonce (`ikos.cluster.tasks.Block`). An envelope
is one block's messages to one shuffler: drawn again from the secret, or the last row. A shuffler
takes the envelopes of all blocks, sorts the messages, and the analyzer's part adds them up where
they are. What comes back to the driver is a sum, a number of messages, and a digest of the
nonces. No task shuffles more than a column or a range of its values, about
`ikos.cluster.driver.LONGEST` messages, and only a few columns are on the cluster at once. Of a
single shuffler, with all columns, it is as many ranges of their values.

**Lost workers.** Dask runs again what a lost worker held. Clients that run again draw fresh noise
and a fresh secret: no randomness meets another value. But a sum over envelopes of two sharings
of a block would be uniform and wrong. So every run of a block's clients draws a fresh nonce of 16
bytes, every envelope carries the nonce of its sharing, and the driver accepts a sum only if every
shuffler, every range of its values and the clear shares all report the same digest, of exactly one
nonce for each block. That suffices. Equal digests mean equal sets of nonces; equal nonces mean the
same run of the clients (up to 2^-128 for each pair); and so each shuffler had each block's messages
once, all from one sharing, whose shares add up to the values that this run read. It does not matter
why there were two sharings, or when: a worker died between two shufflers; one was taken for dead
and came back; a task was stolen or moved; the input reads differently the second time (the number
of users is of the same runs as the digest); results of an earlier attempt arrive late (each attempt
has tasks of its own). If digests differ, everything that came back is dropped and the shuffling
begins again from the blocks as they now are, a bounded number of times; then there is an error.
Nothing partial is ever returned: any part of the shares is uniform.

**No workers left.** All waiting is in steps (`ikos.cluster.waiting`). A cluster that has had no
workers for a minute, or only workers that are paused for lack of memory, is given up with a
`ClusterError`; so is one whose scheduler does not answer.

**Who sees what.** All parties run on one operator's machines: this computes what the protocol
would, at any size, and keeps no party's secrets from the operator. A block that moves to another
worker takes its secret along, and workers that are short of memory write what they hold to their
disk, unless configured otherwise (``distributed.worker.memory.spill: false``). Across a network,
connect with TLS (`distributed.Client` with ``security=``). Values, shares and secrets are in no
name of a task, no log and no printed form.
"""

from ikos.cluster.connection import Cluster
from ikos.cluster.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]
