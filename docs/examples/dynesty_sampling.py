import dynesty
import numpy

import scaler


def log_likelihood(point):
    return -0.5 * float(point @ point)


def prior(cube):
    return 10 * cube - 5


with scaler.local(workers=2) as client:
    sampler = dynesty.NestedSampler(
        log_likelihood, prior, 2, nlive=40, pool=client, queue_size=8, rstate=numpy.random.default_rng(1)
    )
    sampler.run_nested(dlogz=1.0, print_progress=False)

print("log evidence:", round(sampler.results.logz[-1]))
