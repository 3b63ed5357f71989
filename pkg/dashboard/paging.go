// Copyright The nhc-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"strconv"
)

// paging is a part of a long list, and the way to the others.
type paging struct {
	// From and To are the numbers of the first and the last one that is shown, of Total.
	From, To, Total int
	// What they are.
	What string
	// Previous and Next are empty at the ends.
	Previous, Next string
	begin          int
}

// pageParameter is the query parameter with the number of the part, from 1.
const pageParameter = "page"

// newPaging returns the part that a request asks for, the nearest one if there is no such part. It is
// nil if there is only one.
func newPaging(r *request, path, what string, total, size int) *paging {
	if total <= size {
		return nil
	}
	last := (total + size - 1) / size
	number, err := strconv.Atoi(r.URL.Query().Get(pageParameter))
	if err != nil {
		number = 1
	}
	number = min(max(1, number), last)
	p := &paging{begin: (number - 1) * size, Total: total, What: what}
	p.From, p.To = p.begin+1, min(p.begin+size, total)
	if number > 1 {
		p.Previous = pageLink(r, path, number-1)
	}
	if number < last {
		p.Next = pageLink(r, path, number+1)
	}
	return p
}

func pageLink(r *request, path string, number int) string {
	values := r.URL.Query()
	values.Set(pageParameter, strconv.Itoa(number))
	return path + "?" + values.Encode()
}

// part returns the part of a list that a paging shows.
func part[T any](list []T, p *paging) []T {
	if p == nil {
		return list
	}
	return list[p.begin:p.To]
}

// first returns the beginning of a list, and says how many are left out.
func first[T any](list []T, limit int) (shown []T, hidden string) {
	if len(list) <= limit {
		return list, ""
	}
	return list[:limit], fmt.Sprintf("%d of %d are not shown here.", len(list)-limit, len(list))
}
