/*
 * await.h — how pkb-rank waits for the judge. Hardware is left alone meanwhile; a simulator goes on
 * only when it sees that everybody waits.
 */
#pragma once

/* Until the socket `judge` may have something to read, or has hung up. May return early. */
void await_message(int judge);
