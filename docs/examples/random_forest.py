import joblib
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score

import scaler
import scaler.joblib  # registers the backend

features, labels = make_classification(n_samples=300, random_state=0)
forest = RandomForestClassifier(n_estimators=20, random_state=0)

with scaler.local(workers=2) as client, joblib.parallel_config(backend="scaler", client=client):
    # Each fold is a task. With n_jobs for the forest too, its trees would be tasks of that task.
    scores = cross_val_score(forest, features, labels, cv=3, n_jobs=-1)

print("folds:", len(scores), "- all above 0.8:", bool((scores > 0.8).all()))
