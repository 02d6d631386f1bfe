// Package resp serves the key space of a service.Service to clients of Redis' protocols, RESP2 and
// RESP3.
//
// One goroutine serves one connection. It takes a round of pipelined commands from the connection.
// Runs of reads become one Service.Read, and runs of writes a group of Service.Write calls. Replies
// go out in the order of the commands. A command sees the effects of all commands before it on its
// connection.
//
// Replies are encoded by redcon. Requests are not read by redcon. Its parsers index out of bounds
// when a length near 2^63 is declared. Its buffer grows while a pipeline never ends at the end of a
// read. Type frames parses requests within Limits instead.
//
// Thread safety: every exported method may be called from any goroutine.
//
// Ownership: the Server owns the connections that it accepted. Keys and values that reach the
// Service point into a connection's read buffer, which does not change until the call has returned.
package resp
