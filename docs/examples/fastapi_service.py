import asyncio
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

import scaler


def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


@asynccontextmanager
async def lifespan(app):
    with scaler.local(workers=2) as app.state.client:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/fibonacci/{number}")
async def answer(number: int):
    # The future can be awaited: the server answers other requests while the task runs.
    return {"fibonacci": await app.state.client.submit(fibonacci, number)}


@app.get("/as-executor/{number}")
async def answer_as_executor(number: int):
    # For code that takes any executor: a large result would keep the loop from other requests while it is read.
    loop = asyncio.get_running_loop()
    return {"fibonacci": await loop.run_in_executor(app.state.client, fibonacci, number)}


async def ask_it():
    async with lifespan(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as web:
        for answer in await asyncio.gather(web.get("/fibonacci/20"), web.get("/as-executor/10")):
            print(answer.json())


asyncio.run(ask_it())
