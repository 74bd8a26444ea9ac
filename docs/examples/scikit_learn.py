import joblib
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import scaler
import scaler.joblib  # registers the backend

features, labels = make_classification(n_samples=300, random_state=0)
search = GridSearchCV(SVC(), {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1]}, n_jobs=-1)

with scaler.local(workers=2) as client:
    with joblib.parallel_config(backend="scaler", client=client):
        search.fit(features, labels)
    print("the best of 6 candidates, by 30 fits:", search.best_params_)

    # The same for calls of your own.
    with joblib.parallel_config(backend="scaler", client=client):
        roots = joblib.Parallel(n_jobs=-1)(joblib.delayed(pow)(number, 0.5) for number in (1, 4, 9))
    print(roots)
