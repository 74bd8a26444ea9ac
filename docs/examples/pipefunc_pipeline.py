from pipefunc import Pipeline, pipefunc

import scaler


@pipefunc(output_name="doubled", mapspec="number[i] -> doubled[i]")
def double(number):
    return 2 * number


@pipefunc(output_name="total")
def add(doubled):
    return sum(doubled)


pipeline = Pipeline([double, add])

with scaler.local(workers=2) as client:
    results = pipeline.map(
        {"number": list(range(10))}, executor=client, chunksizes=1, storage="dict", show_progress=False
    )

print(results["total"].output)
