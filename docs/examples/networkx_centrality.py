import networkx

import scaler

graph = networkx.karate_club_graph()


def reach(shared, node):
    return sum(networkx.single_source_shortest_path_length(shared, node).values())


with scaler.local(workers=2) as client:
    shared = client.send_object(graph)  # sent once, whatever the number of tasks
    sums = client.map(reach, [shared] * len(graph), list(graph))

nearest = min(graph, key=sums.__getitem__)
print("closest to all others:", nearest, "with", sums[nearest], "steps")
