import dask
import numpy
import xarray

import scaler

temperatures = xarray.DataArray(
    numpy.arange(24.0).reshape(4, 6), dims=("day", "hour"), coords={"day": [1, 2, 3, 4]}, name="temperature"
).chunk({"day": 1})

# xarray computes by Dask, and Dask by the function that it is given.
with scaler.local(workers=2) as client, dask.config.set(scheduler=client.get):
    print(temperatures.mean("hour").compute().values.tolist())
