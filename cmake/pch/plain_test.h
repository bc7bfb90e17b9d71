#pragma once

#include "plain.h"

#include <gtest/gtest.h>
