// The child that runs user code, one task at a time. It talks to the agent over a channel and may be killed at any moment.
#pragma once

namespace scaler {

constexpr int processorChannelFd = 3;

// The whole life of a processor: returns when the agent is gone.
int runProcessor();

}  // namespace scaler
