package resp

import (
	"math/bits"
	"sync"
)

// Buffers come in sizes BaseBufferBytes * 4^class.
const bufferClasses = 10

// bufferPools keeps read buffers that no connection uses. The garbage collector may empty it.
type bufferPools struct {
	classes [bufferClasses]sync.Pool
}

// bufferClass tells the least class whose buffers have at least `bytes`.
func bufferClass(bytes int) int {
	if bytes <= BaseBufferBytes {
		return 0
	}
	return (bits.Len(uint((bytes-1)/BaseBufferBytes)) + 1) / 2
}

// bufferBytes is the size of buffers of a class.
func bufferBytes(class int) int { return BaseBufferBytes << (2 * class) }

// take gives a buffer of the class. Its content is undefined.
func (pools *bufferPools) take(class int) []byte {
	if buffer, ok := pools.classes[class].Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, bufferBytes(class))
}

// give takes a buffer back that take gave. The caller uses it no more.
func (pools *bufferPools) give(buffer []byte) {
	pools.classes[bufferClass(len(buffer))].Put(&buffer)
}
