package resp

import (
	"strconv"

	"github.com/tidwall/redcon"
)

// Replies whose encoding depends on the protocol. RESP3 has maps, sets, texts and one null. In
// RESP2 a map is an array of keys and values in turn, a set an array, and a text a string.

func (c *client) null() {
	if c.protocol == 3 {
		c.out = append(c.out, "_\r\n"...)
		return
	}
	c.out = redcon.AppendNull(c.out)
}

func (c *client) nullArray() {
	if c.protocol == 3 {
		c.null()
		return
	}
	c.out = append(c.out, "*-1\r\n"...)
}

func (c *client) array(count int) { c.out = redcon.AppendArray(c.out, count) }

// beginMap begins a map of `count` keys, each with its value behind it.
func (c *client) beginMap(count int) {
	if c.protocol == 3 {
		c.header('%', count)
		return
	}
	c.array(2 * count)
}

func (c *client) set(count int) {
	if c.protocol == 3 {
		c.header('~', count)
		return
	}
	c.array(count)
}

func (c *client) header(kind byte, count int) {
	c.out = append(c.out, kind)
	c.out = strconv.AppendInt(c.out, int64(count), 10)
	c.out = append(c.out, '\r', '\n')
}

func (c *client) integer(number int64)  { c.out = redcon.AppendInt(c.out, number) }
func (c *client) word(text string)      { c.out = redcon.AppendBulkString(c.out, text) }
func (c *client) simple(text string)    { c.out = redcon.AppendString(c.out, text) }
func (c *client) pair(key, text string) { c.word(key); c.word(text) }

// text replies with lines for people.
func (c *client) text(lines []byte) {
	if c.protocol == 3 {
		c.blob('=', "txt:", lines)
		return
	}
	c.bulk(lines)
}
