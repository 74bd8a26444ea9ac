import random

from deap import algorithms, base, creator, tools

import scaler

creator.create("Fitness", base.Fitness, weights=(1.0,))
creator.create("Individual", list, fitness=creator.Fitness)


def count_ones(bits):
    return (sum(bits),)


random.seed(1)
toolbox = base.Toolbox()
toolbox.register("individual", tools.initRepeat, creator.Individual, lambda: random.randint(0, 1), 20)
toolbox.register("population", tools.initRepeat, list, toolbox.individual)
toolbox.register("evaluate", count_ones)
toolbox.register("mate", tools.cxTwoPoint)
toolbox.register("mutate", tools.mutFlipBit, indpb=0.05)
toolbox.register("select", tools.selTournament, tournsize=3)

with scaler.local(workers=2) as client:
    toolbox.register("map", client.map)
    people, _ = algorithms.eaSimple(toolbox.population(60), toolbox, 0.5, 0.2, ngen=25, verbose=False)

print("ones of 20 in the best:", max(person.fitness.values[0] for person in people))
