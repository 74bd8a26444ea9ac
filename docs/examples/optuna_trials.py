import optuna

import scaler

optuna.logging.set_verbosity(optuna.logging.WARNING)


def loss(x):
    return (x - 2) ** 2


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))

with scaler.local(workers=2) as client:
    # The study stays here and asks for eight trials at a time; their losses are computed side by side.
    for _ in range(8):
        trials = [study.ask() for _ in range(8)]
        losses = client.map(loss, [trial.suggest_float("x", -10, 10) for trial in trials])
        for trial, value in zip(trials, losses, strict=True):
            study.tell(trial, value)

print(len(study.trials), "trials, the best is near 2:", abs(study.best_params["x"] - 2) < 1)
