"""The engine: a learner whose trees, and whose rows, are on a Ray cluster.

The gate stays whole: noise, budget and the published rule are in one process, the driver. What is
spread out is what needs no noise: rows are read and a rule is tried on them by tasks, which keep
nothing; trees grow in shards, which are actors. A shard is a machine: lost, it is grown again from
what was kept of it and from the rows since, to the same votes. What a cluster holds (shards, rows
in the object store, what Ray spills to disk) is as sensitive as the data.
"""

from littlestone.ray.cluster import ClusterLost, Ray, ray_of, redirect_output

__all__ = ["ClusterLost", "Ray", "ray_of", "redirect_output"]
