from scipy.optimize import differential_evolution, rosen

import scaler

with scaler.local(workers=2) as client:
    # `workers` takes anything that is called like the builtin `map`.
    best = differential_evolution(rosen, [(0, 2)] * 3, workers=client.map, updating="deferred", rng=1, tol=1e-8)

print("minimum at", best.x.round(3).tolist())
