"""Sums and graph experiments on a cluster, by Dask (the extra ``cluster``).

The roles of a sum are tasks. The clients of one block of users are a task: it reads their values,
rounds them and adds noise, draws a secret for all rows of shares but the last, takes those off
the last row, and keeps that row, the secret and a nonce (`ikos.cluster.tasks.Block`). An envelope
is one block's messages to one shuffler: drawn again from the secret, or the last row. A shuffler
takes the envelopes of all blocks, sorts the messages, and the analyzer's part adds them up where
they are. What comes back to the driver is a sum, a number of messages, and a digest of the
nonces. No task mixes more than a column or a range of its values,
`ikos.cluster.driver.LONGEST` messages up to chance, and besides the blocks no more than a few
columns are on the cluster at once. Of a single shuffler, with all columns, it is as many ranges
of their values: so many messages as there are users, or `LONGEST` if that is more.

**Lost workers.** Dask runs again what a lost worker held. Clients that run again draw fresh noise
and a fresh secret: no randomness meets another value. But a sum over envelopes of both sharings
of a block would be uniform rubbish. So every run of a block's clients draws a fresh nonce of 16
bytes, every envelope carries the nonce of the sharing that it was drawn from, and the driver
takes a sum only if every shuffler, every range of its values and the clear shares all tell the
same digest: of exactly one nonce for each block. That is all it needs. Equal digests mean equal
sets of nonces; equal nonces mean the same run of the clients, since no two runs draw the same
one (up to 2^-128 for each pair); and so each shuffler had each block's messages once, all from
one sharing, whose shares add up to the values that this run read. It does not matter why there
were two sharings, or when:

- a worker died, and its blocks were made again, between two shufflers or two ranges of one;
- a worker was taken for dead, its tasks were run elsewhere, and then it came back, so that two
  copies of one result differ: a consumer takes one of them, and tells which;
- a task was stolen, or moved with its input: a copy keeps its nonce;
- the input reads differently the second time: the values, their number and the shares are of one
  run, and the number of users is taken from the same runs as the digest;
- an envelope was made again: from the same sharing it is the same, from another it says so;
- results of an attempt that was given up arrive late: each attempt has tasks of its own, and
  nobody listens to those of another.

If they differ, everything that came back is dropped and the shuffling begins again from the
blocks as they now are, a bounded number of times; then there is an error. Nothing partial is ever
returned: any part of the shares is uniform.

**Nobody left.** All waiting is in steps (`ikos.cluster.waiting`). A cluster that has had no
workers for a minute, or only such as are paused for lack of memory, is given up with a
`ClusterError`; so is one whose scheduler does not answer.

**Who sees what.** All roles run on one operator's machines: this computes what the protocol
would, at any size, and keeps no role's secrets from the operator. A block that moves to another
worker takes its secret along, and workers that are short of memory write what they hold to their
disk, unless they are told otherwise (``distributed.worker.memory.spill: false``). Across a network,
connect with TLS (`distributed.Client` with ``security=``). Values, shares and secrets
are in no name of a task, no log and no printed form.
"""

from ikos.cluster.connection import Cluster
from ikos.cluster.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]
