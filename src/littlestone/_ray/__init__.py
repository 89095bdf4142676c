"""The engine `ray`: a learner whose trees and rows are on a Ray cluster.

Noise, budget and the published rule stay in one process, the driver. Only work that needs no noise
is distributed: tasks read rows and evaluate a rule on them, and keep nothing; trees grow in shards,
which are actors. A shard that is lost is grown again, from its saved trees and the rows since, to
the same votes. What a cluster holds (shards, rows in the object store, what Ray spills to disk) is
as sensitive as the data.
"""

from littlestone._ray.cluster import ClusterLost, Ray, ray_of, redirect_output

__all__ = ["ClusterLost", "Ray", "ray_of", "redirect_output"]
