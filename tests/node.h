/* node.h — this machine as a node, for tests that start programs in sandboxes. */
#pragma once

#include "worker/sandbox.h"

/* Prepared once a process; without what only root can have where the tests do not run as root. */
struct sandbox_node *test_node(void);
