import emcee
import numpy

import scaler


def log_probability(position):
    return -0.5 * float(position @ position)


walkers = numpy.random.default_rng(1).normal(size=(16, 2))

with scaler.local(workers=2) as client:
    # `pool` takes anything that has a method `map`.
    sampler = emcee.EnsembleSampler(16, 2, log_probability, pool=client)
    sampler.run_mcmc(walkers, 50)

print("samples:", sampler.get_chain(flat=True).shape)
