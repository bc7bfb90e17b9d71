#pragma once

#include "torch.h"

#include <gtest/gtest.h>
