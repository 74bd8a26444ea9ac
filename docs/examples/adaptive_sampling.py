import adaptive

import scaler


def peak(x):
    return x + 0.01**2 / (0.01**2 + x**2)


learner = adaptive.Learner1D(peak, bounds=(-1, 1))

with scaler.local(workers=2) as client:
    # A client is an executor of the standard library.
    adaptive.BlockingRunner(learner, executor=client, ntasks=4, npoints_goal=60)

close = sum(abs(x) < 0.1 for x in learner.data)
print("at least 60 points:", learner.npoints >= 60)
print("more than a third of them at the peak:", close * 3 > learner.npoints)
